// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android.widget

import android.content.Context
import android.view.View

open class TextView(context: Context) : View() {
    var text: CharSequence get() = TODO(); set(_) = TODO()
}

open class Button(context: Context) : TextView(context)

open class LinearLayout(context: Context) : View() {
    var orientation: Int get() = TODO(); set(_) = TODO()

    fun addView(child: View): Unit = TODO()

    companion object {
        const val VERTICAL = 1
    }
}
