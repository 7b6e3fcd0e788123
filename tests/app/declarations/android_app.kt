// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android.app

import android.content.Context
import android.os.Bundle
import android.view.View

class Notification

class PendingIntent

open class Activity : Context() {
    protected open fun onCreate(savedInstanceState: Bundle?): Unit = TODO()

    open fun setContentView(view: View?): Unit = TODO()

    fun requestPermissions(permissions: Array<String>, requestCode: Int): Unit = TODO()
}
