// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android.util

object Log {
    @JvmStatic fun w(tag: String?, msg: String?, tr: Throwable?): Int = TODO()
}
