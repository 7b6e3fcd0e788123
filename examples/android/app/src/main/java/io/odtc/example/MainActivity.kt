package io.odtc.example

import android.Manifest
import android.os.Build
import android.os.Bundle
import android.widget.Button
import android.widget.LinearLayout
import android.widget.TextView
import androidx.activity.ComponentActivity
import androidx.work.WorkInfo
import androidx.work.WorkManager

/** Schedules the training, starts and stops it, and shows how far it is. */
class MainActivity : ComponentActivity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        val column = LinearLayout(this)
        column.orientation = LinearLayout.VERTICAL
        column.fitsSystemWindows = true // and not below the status bar
        for (work in listOf(TrainingWorker.NIGHT, TrainingWorker.NOW)) column.addView(progressOf(work))
        column.addView(button("Train now") { start() })
        column.addView(button("Stop") { TrainingWorker.stop(this) })
        setContentView(column)
        TrainingWorker.schedule(this)
    }

    private fun progressOf(work: String) = TextView(this).also { view ->
        WorkManager.getInstance(this)
            .getWorkInfosForUniqueWorkLiveData(work)
            .observe(this) { infos -> view.text = infos.lastOrNull()?.let { "$work: ${said(it)}" } ?: "" }
    }

    private fun button(text: String, onClick: () -> Unit) = Button(this).apply {
        this.text = text
        setOnClickListener { onClick() }
    }

    private fun start() {
        // Without it the service is shown among the active apps alone.
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU) {
            requestPermissions(arrayOf(Manifest.permission.POST_NOTIFICATIONS), 0)
        }
        TrainingWorker.start(this)
    }

    private fun said(info: WorkInfo): String = when (info.state) {
        WorkInfo.State.RUNNING -> {
            val step = info.progress.getLong(TrainingWorker.STEP, 0)
            val loss = info.progress.getDouble(TrainingWorker.LOSS, Double.NaN)
            val notice = info.progress.getString(TrainingWorker.MESSAGE)?.let { "\n$it" } ?: ""
            "step $step of ${TrainingWorker.STEPS}, loss %.4f".format(loss) + notice
        }
        WorkInfo.State.SUCCEEDED -> "trained"
        WorkInfo.State.FAILED -> info.outputData.getString(TrainingWorker.MESSAGE) ?: "failed"
        WorkInfo.State.CANCELLED -> "stopped"
        else -> "waits for power, and for the phone to be cool; at night, to charge and be idle"
    }
}
