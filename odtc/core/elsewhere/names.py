"""Classes, functions and attributes of other libraries: which of odtc's own do the same."""

from odtc.core.elsewhere.rows import Row

_SCHEDULES = (
    Row("CosineAnnealingLR CosineDecay", "it is odtc.schedules.Cosine(lr, steps)"),
    Row("StepLR", "it is odtc.schedules.Step(lr, every, gamma)"),
    Row("OneCycleLR OneCyclePolicy", "it is odtc.schedules.OneCycle(lr, steps)"),
    Row(
        "LinearLR SequentialLR",
        "odtc.schedules.Warmup(then, steps) is a straight line up to another",
    ),
    Row(
        "ExponentialLR ExponentialDecay MultiStepLR PiecewiseConstantDecay PolynomialLR LambdaLR "
        "LearningRateScheduler CosineAnnealingWarmRestarts CyclicLR InverseTimeDecay",
        "lr= takes any function of the number of updates, such as lr=lambda n: 0.1 * 0.99**n",
    ),
    Row(
        "ReduceLROnPlateau",
        "a learning rate follows from the number of updates alone, so that a run can be resumed to "
        "the same bits: stop by odtc.EarlyStopping, and fit again with a lower lr",
    ),
)

NAMES = (
    *_SCHEDULES,
    Row("ModelCheckpoint", "odtc.Checkpoint(path, every=100) or odtc.BestCheckpoint(path)"),
    Row("BackupAndRestore", "odtc.Checkpoint(path, every=100), and trainer.fit(..., resume=path)"),
    Row(
        "CSVLogger WandbLogger WandbCallback MLFlowLogger CometLogger NeptuneLogger RemoteMonitor",
        "odtc.JsonLines(path), odtc.TensorBoard(folder), or a function of each epoch's row among "
        "callbacks=",
    ),
    Row("TensorBoardLogger TensorBoardCallback SummaryWriter", "odtc.TensorBoard(folder)"),
    Row("LearningRateMonitor", "history['lr'] has it, and odtc.JsonLines(path) of each step"),
    Row("TerminateOnNaN", "a loss that is no number ends a run with an error, without being asked"),
    Row(
        "RichProgressBar TQDMProgressBar ProgbarLogger ProgressCallback ProgressBar",
        "odtc.LiveView()",
    ),
    Row("Timer", "odtc.TimeLimit(seconds)"),
    Row("TrainerCallback", "derive from odtc.Callback"),
    Row("LambdaCallback", "callbacks= takes functions of the row of each epoch, and odtc.Callback"),
    Row("EarlyStoppingCallback", "odtc.EarlyStopping(patience=3)"),
    Row("TrainingArguments Seq2SeqTrainer SFTTrainer", "arguments of odtc.compile and trainer.fit"),
    Row(
        "StochasticWeightAveraging SwapEMAWeights WeightAveraging EMAWeightAveraging "
        "ExponentialMovingAverage",
        "odtc.compile(model, optimizer=odtc.Update('adam', ema=0.999))",
    ),
    Row(
        "GradientAccumulationScheduler",
        "odtc.compile(model, optimizer=odtc.Update('adam', accumulate=4))",
    ),
    Row("ModelSummary summary", "odtc.compile(model) gives an artifact: print it; or odtc check"),
    Row(
        "Model Sequential Module fit train evaluate predict",
        "trainer = odtc.compile(model, batch=32).trainer() has fit, step and predict",
    ),
    Row("load_model from_onnx", "odtc.compile('model.onnx'), or odtc.load(path)"),
    Row("save load_checkpoint", "artifact.save(path); trainer.save_checkpoint and load_checkpoint"),
    Row("seed_everything manual_seed set_random_seed", "seed= of odtc.compile and trainer.fit"),
    Row(
        "CrossEntropyLoss SparseCategoricalCrossentropy CategoricalCrossentropy",
        "odtc.CrossEntropy",
    ),
    Row(
        "BCELoss BCEWithLogitsLoss BinaryCrossentropy",
        "odtc.BCEWithLogits, of the logits before a Sigmoid",
    ),
    Row("MSELoss MeanSquaredError", "odtc.MSE"),
    Row("L1Loss MeanAbsoluteError", "odtc.L1"),
    Row("NLLLoss", "odtc.NLL"),
    Row("KLDivLoss KLDivergence", "odtc.KLDiv"),
    Row("accuracy Accuracy F1Score", "trainer.fit(..., metrics=['accuracy', 'f1'])"),
    Row(
        "from_keras from_tensorflow from_tflite from_jax",
        "export it to ONNX first: model.export(path, format='onnx') of Keras, or tf2onnx",
    ),
    Row("from_lightning from_pytorch from_transformers", "odtc.from_torch takes any nn.Module"),
    Row("DataLoader Dataset", "trainer.fit takes those of PyTorch, and Datasets of Hugging Face"),
)

SCHEDULES = (*_SCHEDULES, Row("Exponential Linear Polynomial Lambda", _SCHEDULES[4].python))

TRAINER = (
    Row("train_on_batch training_step", "trainer.step(x, y, lr=...)"),
    Row(
        "test_on_batch validate test score",
        "trainer.fit(..., validation=...) has the loss and metrics; trainer.predict gives outputs",
    ),
    Row("eval forward", "trainer.predict(x) is in inference mode"),
    Row("summary", "print(artifact), or odtc inspect"),
    Row(
        "save save_weights save_model save_pretrained",
        "trainer.save_checkpoint(path), trainer.export_onnx(path) or trainer.export_peft(folder)",
    ),
    Row("load_weights load_state_dict", "trainer.load_checkpoint(path)"),
    Row("load_adapter", "trainer.add_adapter(name, path), then trainer.set_adapter(name)"),
    Row("active_adapters peft_config", "trainer.active_adapter is one of trainer.adapters"),
    Row("merge_adapter merge_and_unload", "trainer.export_onnx(path) merges adapters"),
    Row("named_parameters weights get_weights", "trainer.parameters() has them by name"),
    Row("model module", "trainer.to_torch(module) gives a module these weights"),
    Row("callback_metrics logged_metrics log_history", "trainer.history is that of the last run"),
    Row("lr_find tune", "trainer.find_learning_rate(data)"),
    Row(
        "optimizer optimizers lr learning_rate",
        "lr= of trainer.step and trainer.fit is a number or a schedule",
    ),
    Row("compile", "odtc.compile(model, loss=..., optimizer=...)"),
    Row("schedule scheduler lr_scheduler", "schedule= of trainer.fit, or a schedule as its lr="),
    Row(
        "callbacks epochs max_epochs metrics validation patience",
        "it is an argument of trainer.fit",
    ),
    Row("batch batch_size", "it is that of the compiled step: odtc.compile(model, batch=32)"),
    Row(
        "loss loss_fn criterion momentum weight_decay accumulate clip_norm",
        "it is compiled into the step: odtc.compile(model, loss=..., optimizer=...)",
    ),
    Row("train_params trainable requires_grad", "odtc.compile(model, train='fc*') says it"),
    Row("threads num_threads", "trainer.use_threads(2) sets them"),
    Row("budget memory_budget", "trainer.set_budget('64MiB') sets it"),
    Row("seed", "seed= of odtc.compile and trainer.fit"),
    Row("cuda cpu to", "a step runs where it is compiled for: odtc.compile(model, target=...)"),
)

ARTIFACT = (
    Row(
        "fit step train train_on_batch training_step predict evaluate forward parameters "
        "state_dict to_torch export_onnx save_checkpoint load_checkpoint find_learning_rate "
        "profile",
        "trainer = artifact.trainer() has it",
    ),
    Row(
        "lr learning_rate",
        "the learning rate goes to each step: lr= of trainer.step and trainer.fit",
    ),
    Row(
        "batch batch_size target loss optimizer",
        "artifact.manifest says it; another one is another odtc.compile",
    ),
    Row("threads num_threads", "artifact.trainer(threads=2) sets them"),
    Row("device", "artifact.trainer(device) runs it there"),
    Row("name seed", "artifact.manifest says what there is"),
    Row("summary", "print(artifact), or odtc inspect"),
    Row("write export dump", "artifact.save(path) writes it"),
)

RUN = (
    Row(
        "should_stop stop_training should_training_stop should_epoch_stop",
        "run.stop('why') ends it after the step",
    ),
    Row(
        "lr learning_rate",
        "a learning rate follows from the number of updates alone: lr= of trainer.fit takes any "
        "function of it",
    ),
    Row("current_epoch", "run.epoch"),
    Row("global_step", "run.step"),
    Row("callback_metrics logged_metrics log_history", "run.history, or the row that a hook gets"),
    Row("model optimizer optimizers", "run.trainer has the weights"),
    Row("max_epochs max_steps params", "run.course has its end"),
    Row("log", "add the number to the row that on_validation_end gets"),
    Row("state control", "a hook gets the run, and a row of its history"),
)

CALLBACK = (
    Row(
        "patience min_delta monitor mode seconds every keep folder console",
        "give it where the callback is made, such as odtc.EarlyStopping(patience=5)",
    ),
    Row("restore_best_weights", "odtc.BestCheckpoint(path, restore=True) goes back to the best"),
    Row("best stopped_epoch wait", "history.best() is the best row, history.stopped says why"),
)

HISTORY = (
    Row("history", "it is the history: history['val_loss'] is a column"),
    Row(
        "plot plot_loss as_frame to_frame",
        "pandas.DataFrame(history.rows) is a frame, to be plotted",
    ),
    Row("params epoch model", "history.rows has what was measured"),
)
