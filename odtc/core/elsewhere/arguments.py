"""Arguments and options of PyTorch, Lightning, Keras and transformers: where odtc takes them."""

from odtc.core.elsewhere.rows import Row, said_of

# Options of an optimizer are text in Python and on the command line.
_RATE = (
    "the learning rate goes to each step: lr= of trainer.step and trainer.fit, --lr of odtc train"
)
_RATE_SHELL = "the learning rate goes to each step: --lr of odtc train"
_BEST = "odtc.BestCheckpoint(path, restore=True) keeps the best weights, and goes back to them"
_EVERY = "odtc.Checkpoint(path, every=100, keep=3) keeps checkpoints of a run"
_EVERY_SHELL = "--checkpoint FILE --checkpoint-every 100 --keep 3 keep checkpoints of a run"

ARGUMENTS = (
    Row(
        "batch_size train_batch_size eval_batch_size per_device_train_batch_size "
        "per_device_eval_batch_size bs",
        "the batch is that of the compiled step: odtc.compile(model, batch=32)",
        "the batch is that of the compiled step: odtc compile --batch 32",
    ),
    Row("lr learning_rate base_lr init_lr", _RATE, _RATE_SHELL),
    Row(
        "max_epochs num_train_epochs num_epochs n_epochs nb_epoch", "it is epochs", "it is --epochs"
    ),
    Row("max_steps num_steps max_iter", "it is steps, of the whole run", "it is --steps"),
    Row(
        "steps_per_epoch limit_train_batches overfit_batches fast_dev_run",
        "an epoch is all of the data; steps= limits the whole run",
        "an epoch is all of the data; --steps limits the whole run",
    ),
    Row(
        "validation_data validation_dataset val_data val_dataset eval_dataset valid_data "
        "val_dataloaders val_loader valid_loader val valid",
        "it is validation",
        "it is --validation",
    ),
    Row(
        "train_data train_dataset train_dataloaders train_dataloader train_loader x",
        "it is data, the first argument: a loader, a Dataset, or one pair (x, y)",
        "it is --data",
    ),
    Row(
        "datamodule", "give its loaders: fit(it.train_dataloader(), validation=it.val_dataloader())"
    ),
    Row(
        "validation_split val_split",
        "nothing is split off: give both parts, fit((x[n:], y[n:]), validation=(x[:n], y[:n]))",
        "nothing is split off: give the other part as --validation",
    ),
    Row(
        "validation_steps limit_val_batches eval_iters",
        "a validation takes all of its data: give less of it",
    ),
    Row(
        "validation_freq check_val_every_n_epoch eval_strategy evaluation_strategy",
        "a validation follows each epoch; validate_every= adds some between, by steps",
        "a validation follows each epoch; --validate-every adds some between, by steps",
    ),
    Row(
        "val_check_interval eval_steps eval_every",
        "it is validate_every, in steps",
        "it is --validate-every, in steps",
    ),
    Row(
        "verbose enable_progress_bar disable_tqdm progress_bar show_progress",
        "a run says nothing by itself: callbacks=[odtc.LiveView()] draws it",
        "a run draws itself in a terminal, and says a line every five seconds elsewhere",
    ),
    Row(
        "class_weight class_weights",
        "classes are weighed by the loss of the step: odtc.CrossEntropy(weight=[...]), whose mean "
        "is over the weights, as PyTorch's",
        "classes are weighed by the loss of the step: odtc compile --loss",
    ),
    Row(
        "sample_weight sample_weights",
        "a step has no weights of samples: all of a batch count alike",
    ),
    Row(
        "shuffle no_shuffle",
        "files, arrays and Datasets are shuffled, by seed; a DataLoader and a list of batches keep "
        "their own order",
        "samples are shuffled, by --seed",
    ),
    Row(
        "initial_epoch ckpt_path resume_from_checkpoint",
        "it is resume, of a file that odtc.Checkpoint(path) writes",
        "--checkpoint FILE --resume goes on from a checkpoint",
    ),
    Row(
        "save_steps save_strategy save_freq save_interval save_last save_total_limit checkpoint "
        "checkpoint_every enable_checkpointing every_n_train_steps every_n_epochs keep",
        _EVERY,
        _EVERY_SHELL,
    ),
    Row(
        "load_best_model_at_end restore_best_weights restore_best save_best_only save_top_k "
        "save_best best",
        _BEST,
        "--best FILE keeps the best weights, and --restore-best goes back to them",
    ),
    Row(
        "metric_for_best_model monitor",
        "it is monitor= of odtc.EarlyStopping and odtc.BestCheckpoint",
        "it is --monitor",
    ),
    Row(
        "greater_is_better",
        "mode='max' of odtc.EarlyStopping and odtc.BestCheckpoint says it",
        "--mode max says it",
    ),
    Row(
        "patience early_stopping early_stopping_patience early_stopping_rounds",
        "callbacks=[odtc.EarlyStopping(patience=3)] stops early",
        "--patience 3 stops early",
    ),
    Row(
        "baseline start_from_epoch",
        "a run stops where it is no better than its own best one so far",
    ),
    Row("check_finite", "a loss that is no number ends a run with an error, without being asked"),
    Row(
        "save_weights_only",
        "a checkpoint has weights, the optimizer's state and the run; trainer.export_onnx writes "
        "the model alone",
        "a checkpoint has weights, the optimizer's state and the run; --export FILE writes the "
        "model alone",
    ),
    Row("filepath dirpath filename", "it is path, of one file"),
    Row(
        "log_dir logdir logging_dir",
        "it is folder of odtc.TensorBoard",
        "--tensorboard FOLDER and --log FILE write losses and metrics",
    ),
    Row(
        "output_dir save_dir default_root_dir",
        "nothing is written that no callback is asked for: odtc.Checkpoint(path), "
        "odtc.BestCheckpoint(path)",
        "--checkpoint FILE, --best FILE and --export FILE write what there is to keep",
    ),
    Row(
        "log logger report_to logging_steps log_every_n_steps tensorboard",
        "odtc.JsonLines(path) and odtc.TensorBoard(folder) write each step",
        "--log FILE and --tensorboard FOLDER write each step",
    ),
    Row(
        "histogram_freq write_graph write_images update_freq",
        "losses, learning rates and metrics are written, of each step and each validation",
    ),
    Row(
        "compute_metrics weighted_metrics metrics metric",
        "it is metrics= of trainer.fit: names, or functions of all outputs and all labels",
        "it is --metrics of odtc train",
    ),
    Row(
        "epochs",
        "trainer.fit(data, epochs=20) trains over data",
        "odtc train --epochs 20 trains over data",
    ),
    Row(
        "callbacks",
        "trainer.fit(data, callbacks=[...]) calls them",
        "options do what callbacks do: --checkpoint, --best, --patience, --max-time, --log",
    ),
    Row(
        "optimizer loss",
        "it is compiled into the step: odtc.compile(model, loss=..., optimizer=...)",
        "it is compiled into the step: odtc compile --loss --optimizer",
    ),
    Row(
        "momentum weight_decay nesterov decay",
        "it is an option of the optimizer, odtc.compile(model, optimizer=odtc.SGD(momentum=0.9)), "
        "where that has it",
        "it is an option of the optimizer, odtc compile --optimizer 'sgd{momentum=0.9}', where "
        "that has it",
    ),
    Row("betas", "they are beta1 and beta2"),
    Row("beta_1", "it is beta1"),
    Row("beta_2", "it is beta2"),
    Row("epsilon", "it is eps"),
    Row(
        "params",
        "which weights are trained is said by odtc.compile(model, train='fc*')",
        "which weights are trained is said by odtc compile --train 'fc*'",
    ),
    Row(
        "gradient_accumulation_steps accumulate_grad_batches accumulate",
        "it is of the update: odtc.compile(model, optimizer=odtc.Update('adam', accumulate=4))",
        "it is of the compiled step: odtc compile --accumulate 4",
    ),
    Row(
        "max_grad_norm gradient_clip_val global_clipnorm clip_norm clip_grad clip_grad_norm",
        "it is of the update: odtc.compile(model, optimizer=odtc.Update('adam', clip_norm=1.0))",
        "it is of the compiled step: odtc compile --clip-norm 1",
    ),
    Row(
        "clipnorm",
        "odtc.Update('adam', clip_norm=1.0) clips the norm of all gradients together, as Keras's "
        "global_clipnorm; none clips that of each weight",
        "odtc compile --clip-norm 1 clips the norm of all gradients together",
    ),
    Row(
        "clipvalue clip_value",
        "it is of the update: odtc.compile(model, optimizer=odtc.Update('adam', clip_value=0.5))",
        "it is of the compiled step: odtc compile --clip-value 0.5",
    ),
    Row(
        "use_ema ema ema_momentum ema_decay",
        "it is of the update: odtc.compile(model, optimizer=odtc.Update('adam', ema=0.999))",
        "it is of the compiled step: odtc compile --ema 0.999",
    ),
    Row(
        "fp16 bf16 amp half precision dtype mixed_precision",
        "it is compiled into the step: odtc.compile(model, precision='mixed')",
        "it is compiled into the step: odtc compile --precision mixed",
    ),
    Row(
        "gradient_checkpointing",
        "a budget decides what is computed again: odtc.compile(model, memory_budget='64MiB')",
        "a budget decides what is computed again: odtc compile --memory-budget 64MiB",
    ),
    Row(
        "warmup warmup_steps num_warmup_steps warmup_ratio",
        "give lr=odtc.schedules.Warmup(odtc.schedules.Cosine(0.1, steps=900), steps=100)",
        "it is --warmup, in updates",
    ),
    Row(
        "scheduler lr_scheduler lr_scheduler_type",
        "it is schedule, such as odtc.schedules.Cosine",
        "it is --schedule, such as cosine",
    ),
    Row(
        "num_workers workers dataloader_num_workers use_multiprocessing",
        "samples are read ahead by threads, without being asked",
    ),
    Row(
        "drop_last dataloader_drop_last",
        "samples that fill no batch go with the next epoch",
    ),
    Row(
        "device devices gpus num_gpus accelerator cuda strategy",
        "a step runs where it is compiled for, odtc.compile(model, target='host-opencl'), on the "
        "device of artifact.trainer(device=...)",
        "a step runs where it is compiled for, odtc compile --target host-opencl; --device is a "
        "phone",
    ),
    Row(
        "threads",
        "it is of artifact.trainer(threads=2)",
        "it is --threads of odtc train; of a target, host-cpu{threads=2}",
    ),
    Row("deterministic", "the same seed gives the same bits, without being asked"),
    Row(
        "max_time time_limit duration",
        "callbacks=[odtc.TimeLimit(seconds)] ends a run",
        "--max-time SECONDS ends a run",
    ),
    Row(
        "ignore_errors on_error skip_errors is_valid_file",
        "skip_broken=True leaves out images that cannot be read",
        "--skip-broken leaves out images that cannot be read",
    ),
    Row(
        "transform transforms augmentation data_augmentation",
        "it is augment, such as ['flip', 'crop{pixels=4}']",
        "it is --augment, such as flip",
    ),
    Row("jit_compile run_eagerly", "the whole step is compiled, in any case"),
    Row("steps_per_execution", "it is steps_per_call of trainer.fit", "it is --steps-per-call"),
    Row(
        "from_logits",
        "outputs are logits: a Softmax or Sigmoid that ends the model is left out in training",
    ),
    Row(
        "num_classes",
        "odtc.replace_head puts a head for other classes on a model",
        "odtc adapt puts a head for other classes on a model",
    ),
    Row("r lora_rank", "it is rank, of odtc.LoRA", "it is odtc compile --lora rank=8"),
    Row("lora_alpha", "it is alpha", "it is odtc compile --lora rank=8,alpha=16"),
    Row(
        "lora_dropout",
        "it is dropout, of odtc.LoRA",
        "it is odtc compile --lora rank=8,dropout=0.1",
    ),
    Row("peft_config", "it is lora=odtc.LoRA(rank=8)", "it is odtc compile --lora rank=8"),
)


def argument_elsewhere(name: str, *, command_line: bool = False) -> str:
    """What is said of an argument, or of an option, that another library has; empty of others."""
    return said_of(name.lstrip("-").replace("-", "_"), ARGUMENTS, command_line=command_line)
