// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android

class Manifest {
    object permission {
        const val POST_NOTIFICATIONS = "android.permission.POST_NOTIFICATIONS"
    }
}

class R {
    object drawable {
        const val stat_notify_sync = 17301623
    }
}
