package io.odtc.example

import android.content.Context
import android.os.Build
import android.os.PowerManager

/** What a phone is to be like for training, beside what WorkManager asks of it: a job has no constraint for heat. */
class Conditions(context: Context) {
    private val power = context.getSystemService(PowerManager::class.java)

    /** Why training should wait; null where nothing is in its way. */
    fun reasonToWait(): String? = when {
        power.isPowerSaveMode -> "the battery saver is on"
        isHot() -> "the phone is hot"
        else -> null
    }

    /** Whether it throttles, so that others notice. */
    private fun isHot() =
        Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q &&
            power.currentThermalStatus >= PowerManager.THERMAL_STATUS_MODERATE
}
