// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android.content.pm

class PackageInfo {
    @JvmField var lastUpdateTime: Long = 0
}

abstract class PackageManager {
    fun getPackageInfo(packageName: String, flags: Int): PackageInfo = TODO()
}

class ServiceInfo {
    companion object {
        const val FOREGROUND_SERVICE_TYPE_SPECIAL_USE = 1 shl 30
    }
}
