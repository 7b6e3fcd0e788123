// Declarations of what the example calls of Android 16 (API 36): as its documentation has them, and without code.
package android.os

class Bundle

class Build {
    object VERSION {
        @JvmField val SDK_INT: Int = 0
    }

    object VERSION_CODES {
        const val Q = 29
        const val TIRAMISU = 33
        const val UPSIDE_DOWN_CAKE = 34
    }
}

class PowerManager {
    val isPowerSaveMode: Boolean get() = TODO()
    val currentThermalStatus: Int get() = TODO()

    companion object {
        const val THERMAL_STATUS_MODERATE = 2
    }
}

object SystemClock {
    fun elapsedRealtime(): Long = TODO()
}
