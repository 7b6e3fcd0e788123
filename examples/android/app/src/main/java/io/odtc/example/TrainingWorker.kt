package io.odtc.example

import android.content.Context
import android.os.SystemClock
import android.util.Log
import androidx.work.Constraints
import androidx.work.CoroutineWorker
import androidx.work.ExistingWorkPolicy
import androidx.work.ForegroundInfo
import androidx.work.OneTimeWorkRequestBuilder
import androidx.work.WorkManager
import androidx.work.WorkerParameters
import androidx.work.workDataOf
import io.odtc.TrainerException
import java.io.IOException
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock

/** Trains until all steps are taken; the system may stop it between any two, and runs it again later. */
class TrainingWorker(context: Context, parameters: WorkerParameters) : CoroutineWorker(context, parameters) {
    override suspend fun doWork(): Result = try {
        if (inputData.getBoolean(NOW, false)) showNotification()
        // A run that was stopped may not have come to the end of its step when the next one begins.
        alone.withLock { Model(applicationContext).training().use { train(it) } }
    } catch (error: TrainerException) {
        if (error.code() in Training.PASSING) later(error) else Result.failure(workDataOf(MESSAGE to error.message))
    } catch (error: IOException) {
        later(error)
    }

    private fun later(error: Exception): Result {
        Log.w(TAG, "training is tried again later", error)
        return Result.retry()
    }

    override suspend fun getForegroundInfo(): ForegroundInfo = Notice.of(id, applicationContext)

    private suspend fun train(training: Training): Result {
        val conditions = Conditions(applicationContext)
        var told = 0L
        // Off the charger, in use, or after the ten minutes of a job: it has been stopped.
        while (training.steps < STEPS && !isStopped) {
            val loss = training.step()
            val now = SystemClock.elapsedRealtime()
            if (now - told < MILLISECONDS_TO_A_LOOK) continue
            told = now
            setProgressAsync(workDataOf(STEP to training.steps, LOSS to loss, MESSAGE to training.notice))
            if (conditions.reasonToWait() != null) break
        }
        training.save()
        return if (training.steps < STEPS) Result.retry() else Result.success()
    }

    /** Goes on as a job of ten minutes where no service may be shown: when it is run again, nobody looks at the app. */
    private suspend fun showNotification() {
        try {
            setForeground(getForegroundInfo())
        } catch (error: IllegalStateException) {
            if (error is CancellationException) throw error
        }
    }

    companion object {
        /** Of two works: what the user starts and stops leaves that of the night where it is. */
        const val NIGHT = "training at night"
        const val NOW = "training now"
        const val STEP = "step"
        const val LOSS = "loss"
        const val MESSAGE = "message"
        const val STEPS = 2000L
        private const val TAG = "training"
        private const val MILLISECONDS_TO_A_LOOK = 1000L
        private val alone = Mutex()

        /** Lets it train when the phone has time, once for all of these calls. */
        fun schedule(context: Context) {
            val constraints = Constraints.Builder()
                .setRequiresCharging(true)
                .setRequiresBatteryNotLow(true)
                .setRequiresDeviceIdle(true)
                .build()
            enqueue(context, NIGHT, constraints)
        }

        /** Lets it train at once, as the user asks for it, once for all of these calls; the battery may not be low. */
        fun start(context: Context) {
            val constraints = Constraints.Builder().setRequiresBatteryNotLow(true).build()
            enqueue(context, NOW, constraints)
        }

        /** Stops what the user has started after the step that runs. */
        fun stop(context: Context) {
            WorkManager.getInstance(context).cancelUniqueWork(NOW)
        }

        private fun enqueue(context: Context, name: String, constraints: Constraints) {
            val request = OneTimeWorkRequestBuilder<TrainingWorker>()
                .setConstraints(constraints)
                .setInputData(workDataOf(NOW to (name == NOW)))
                .build()
            WorkManager.getInstance(context).enqueueUniqueWork(name, ExistingWorkPolicy.KEEP, request)
        }
    }
}
