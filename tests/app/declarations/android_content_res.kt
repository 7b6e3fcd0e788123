// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android.content.res

import java.io.InputStream

class AssetManager {
    fun open(fileName: String): InputStream = TODO()
}
