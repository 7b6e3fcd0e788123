package io.odtc.example

import android.os.Bundle
import android.widget.TextView
import androidx.activity.ComponentActivity
import androidx.work.WorkInfo
import androidx.work.WorkManager

/** Schedules the training, and shows how far it is. */
class MainActivity : ComponentActivity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        val view = TextView(this)
        setContentView(view)
        TrainingWorker.schedule(this)
        WorkManager.getInstance(this)
            .getWorkInfosForUniqueWorkLiveData(TrainingWorker.NAME)
            .observe(this) { infos -> view.text = infos.lastOrNull()?.let(::said) ?: "" }
    }

    private fun said(info: WorkInfo): String = when (info.state) {
        WorkInfo.State.RUNNING -> {
            val step = info.progress.getLong(TrainingWorker.STEP, 0)
            val loss = info.progress.getDouble(TrainingWorker.LOSS, Double.NaN)
            "step $step of ${TrainingWorker.STEPS}, loss %.4f".format(loss)
        }
        WorkInfo.State.SUCCEEDED -> "trained"
        WorkInfo.State.FAILED -> info.outputData.getString(TrainingWorker.MESSAGE) ?: "failed"
        else -> "waits for the charger, and for the phone to be idle"
    }
}
