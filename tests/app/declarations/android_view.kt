// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android.view

open class View {
    var fitsSystemWindows: Boolean get() = TODO(); set(_) = TODO()

    fun setOnClickListener(l: OnClickListener?): Unit = TODO()

    fun interface OnClickListener {
        fun onClick(v: View)
    }
}
