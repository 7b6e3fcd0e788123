// Declarations of what the example calls of androidx.core 1.17: as its documentation has them, and without code.
package androidx.core.app

import android.app.Notification
import android.app.PendingIntent
import android.content.Context

class NotificationChannelCompat {
    class Builder(id: String, importance: Int) {
        fun setName(name: CharSequence?): Builder = TODO()

        fun build(): NotificationChannelCompat = TODO()
    }
}

class NotificationManagerCompat {
    fun createNotificationChannel(channel: NotificationChannelCompat): Unit = TODO()

    companion object {
        const val IMPORTANCE_LOW = 2

        fun from(context: Context): NotificationManagerCompat = TODO()
    }
}

class NotificationCompat {
    class Builder(context: Context, channelId: String) {
        fun setContentTitle(title: CharSequence?): Builder = TODO()

        fun setSmallIcon(icon: Int): Builder = TODO()

        fun setOngoing(ongoing: Boolean): Builder = TODO()

        fun addAction(icon: Int, title: CharSequence?, intent: PendingIntent?): Builder = TODO()

        fun build(): Notification = TODO()
    }
}
