package io.odtc.example

import android.content.Context
import androidx.work.Constraints
import androidx.work.ExistingWorkPolicy
import androidx.work.OneTimeWorkRequestBuilder
import androidx.work.WorkManager
import androidx.work.Worker
import androidx.work.WorkerParameters
import androidx.work.workDataOf
import io.odtc.Trainer
import io.odtc.TrainerException

/** Trains while the phone charges and is idle; the system may stop it at any time. */
class TrainingWorker(context: Context, parameters: WorkerParameters) : Worker(context, parameters) {
    private val model = Model(context)
    private val lock = Any()
    private var running: Trainer? = null

    override fun doWork(): Result = try {
        model.trainer().use { train(it) }
    } catch (error: TrainerException) {
        Result.failure(workDataOf(MESSAGE to error.message))
    }

    private fun train(trainer: Trainer): Result {
        synchronized(lock) { running = trainer }
        try {
            val images = trainer.tensor("image").asFloatBuffer()
            val labels = trainer.tensor("label").asIntBuffer()
            while (trainer.steps() < STEPS && !isStopped) {
                Samples.write(trainer.steps(), images, labels)
                val loss = trainer.step(LEARNING_RATE)
                // After each step: at most one is lost when the process is killed. A larger model saves less often.
                trainer.save(model.checkpoint.path)
                setProgressAsync(workDataOf(STEP to trainer.steps(), LOSS to loss))
            }
        } catch (error: TrainerException) {
            if (error.code() != TrainerException.CANCELLED) throw error
            trainer.save(model.checkpoint.path)
        } finally {
            // From here on nobody may cancel what is about to be closed.
            synchronized(lock) { running = null }
        }
        return if (trainer.steps() < STEPS) Result.retry() else Result.success(workDataOf(STEP to STEPS))
    }

    /** Called by another thread when the phone is taken off the charger, or is used. */
    override fun onStopped() {
        synchronized(lock) { running?.cancel(false) }
    }

    companion object {
        const val NAME = "training"
        const val STEP = "step"
        const val LOSS = "loss"
        const val MESSAGE = "message"
        const val STEPS = 2000L
        private const val LEARNING_RATE = 0.05f

        /** Lets it train when the phone has time, once for all of these calls. */
        fun schedule(context: Context) {
            val constraints = Constraints.Builder().setRequiresCharging(true).setRequiresDeviceIdle(true).build()
            val request = OneTimeWorkRequestBuilder<TrainingWorker>().setConstraints(constraints).build()
            WorkManager.getInstance(context).enqueueUniqueWork(NAME, ExistingWorkPolicy.KEEP, request)
        }
    }
}
