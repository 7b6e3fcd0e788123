// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android.content

import android.content.pm.PackageManager
import android.content.res.AssetManager
import java.io.File

abstract class Context {
    val applicationContext: Context get() = TODO()
    val assets: AssetManager get() = TODO()
    val cacheDir: File get() = TODO()
    val filesDir: File get() = TODO()
    val noBackupFilesDir: File get() = TODO()
    val packageManager: PackageManager get() = TODO()
    val packageName: String get() = TODO()

    fun <T> getSystemService(serviceClass: Class<T>): T = TODO()
}
