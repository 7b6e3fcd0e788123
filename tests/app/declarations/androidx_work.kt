// Declarations of what the example calls of androidx.work 2.11: as its documentation has them, and without code.
package androidx.work

import android.app.Notification
import android.app.PendingIntent
import android.content.Context
import androidx.lifecycle.LiveData
import com.google.common.util.concurrent.ListenableFuture
import java.util.UUID

class WorkerParameters

class Operation

class Data {
    fun getBoolean(key: String, defaultValue: Boolean): Boolean = TODO()

    fun getDouble(key: String, defaultValue: Double): Double = TODO()

    fun getLong(key: String, defaultValue: Long): Long = TODO()

    fun getString(key: String): String? = TODO()
}

fun workDataOf(vararg pairs: Pair<String, Any?>): Data = TODO()

class ForegroundInfo(notificationId: Int, notification: Notification, foregroundServiceType: Int) {
    constructor(notificationId: Int, notification: Notification) : this(notificationId, notification, 0)
}

abstract class ListenableWorker(appContext: Context, workerParams: WorkerParameters) {
    val applicationContext: Context get() = TODO()
    val id: UUID get() = TODO()
    val inputData: Data get() = TODO()
    val isStopped: Boolean get() = TODO()

    open fun onStopped(): Unit = TODO()

    open fun setProgressAsync(data: Data): ListenableFuture<Void> = TODO()

    abstract class Result {
        companion object {
            fun success(): Result = TODO()

            fun retry(): Result = TODO()

            fun failure(outputData: Data): Result = TODO()
        }
    }
}

abstract class CoroutineWorker(appContext: Context, params: WorkerParameters) :
    ListenableWorker(appContext, params) {
    abstract suspend fun doWork(): Result

    open suspend fun getForegroundInfo(): ForegroundInfo = TODO()

    suspend fun setForeground(foregroundInfo: ForegroundInfo): Unit = TODO()

    final override fun onStopped(): Unit = TODO()
}

class Constraints {
    class Builder {
        fun setRequiresCharging(requiresCharging: Boolean): Builder = TODO()

        fun setRequiresBatteryNotLow(requiresBatteryNotLow: Boolean): Builder = TODO()

        fun setRequiresDeviceIdle(requiresDeviceIdle: Boolean): Builder = TODO()

        fun build(): Constraints = TODO()
    }
}

enum class ExistingWorkPolicy { REPLACE, KEEP, APPEND, APPEND_OR_REPLACE }

class OneTimeWorkRequest {
    class Builder(workerClass: Class<out ListenableWorker>) {
        fun setConstraints(constraints: Constraints): Builder = TODO()

        fun setInputData(inputData: Data): Builder = TODO()

        fun build(): OneTimeWorkRequest = TODO()
    }
}

inline fun <reified W : ListenableWorker> OneTimeWorkRequestBuilder(): OneTimeWorkRequest.Builder =
    OneTimeWorkRequest.Builder(W::class.java)

class WorkInfo {
    val state: State get() = TODO()
    val progress: Data get() = TODO()
    val outputData: Data get() = TODO()

    enum class State { ENQUEUED, RUNNING, SUCCEEDED, FAILED, BLOCKED, CANCELLED }
}

abstract class WorkManager {
    abstract fun cancelUniqueWork(uniqueWorkName: String): Operation

    abstract fun createCancelPendingIntent(id: UUID): PendingIntent

    open fun enqueueUniqueWork(
        uniqueWorkName: String,
        existingWorkPolicy: ExistingWorkPolicy,
        request: OneTimeWorkRequest,
    ): Operation = TODO()

    abstract fun getWorkInfosForUniqueWorkLiveData(uniqueWorkName: String): LiveData<List<WorkInfo>>

    companion object {
        fun getInstance(context: Context): WorkManager = TODO()
    }
}
