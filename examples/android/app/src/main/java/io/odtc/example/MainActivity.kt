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
        val view = TextView(this)
        val column = LinearLayout(this)
        column.orientation = LinearLayout.VERTICAL
        column.fitsSystemWindows = true // and not below the status bar
        column.addView(view)
        column.addView(button("Train now") { start() })
        column.addView(button("Stop") { TrainingWorker.stop(this) })
        setContentView(column)
        TrainingWorker.schedule(this)
        WorkManager.getInstance(this)
            .getWorkInfosForUniqueWorkLiveData(TrainingWorker.NAME)
            .observe(this) { infos -> view.text = infos.lastOrNull()?.let(::said) ?: "" }
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
            "step $step of ${TrainingWorker.STEPS}, loss %.4f".format(loss)
        }
        WorkInfo.State.SUCCEEDED -> "trained"
        WorkInfo.State.FAILED -> info.outputData.getString(TrainingWorker.MESSAGE) ?: "failed"
        WorkInfo.State.CANCELLED -> "stopped"
        else -> "waits for the charger, and for the phone to be idle and cool"
    }
}
