package io.odtc.example

import android.content.Context
import android.content.pm.ServiceInfo
import android.os.Build
import androidx.core.app.NotificationChannelCompat
import androidx.core.app.NotificationCompat
import androidx.core.app.NotificationManagerCompat
import androidx.work.ForegroundInfo
import androidx.work.WorkManager
import java.util.UUID

/** The notification of training that a user has started, with a button that stops it. */
object Notice {
    private const val CHANNEL = "training"
    private const val ID = 1

    fun of(work: UUID, context: Context): ForegroundInfo {
        val channel = NotificationChannelCompat.Builder(CHANNEL, NotificationManagerCompat.IMPORTANCE_LOW)
        NotificationManagerCompat.from(context).createNotificationChannel(channel.setName("Training").build())
        val notification = NotificationCompat.Builder(context, CHANNEL)
            .setContentTitle("Training")
            .setSmallIcon(android.R.drawable.stat_notify_sync)
            .setOngoing(true)
            .addAction(0, "Stop", WorkManager.getInstance(context).createCancelPendingIntent(work))
            .build()
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.UPSIDE_DOWN_CAKE) return ForegroundInfo(ID, notification)
        return ForegroundInfo(ID, notification, ServiceInfo.FOREGROUND_SERVICE_TYPE_SPECIAL_USE)
    }
}
