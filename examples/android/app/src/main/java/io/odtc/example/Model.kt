package io.odtc.example

import android.content.Context
import io.odtc.Trainer
import java.io.File

/** The step of the digits: its files, and a trainer of them. */
class Model(private val context: Context) {
    /** What was trained so far; it is written whole or not at all. */
    val checkpoint = File(context.filesDir, "digits.checkpoint")

    /** A trainer with what was trained so far, or with the weights of the app. */
    fun trainer(): Trainer {
        val trainer =
            Trainer(fileOf("program.bin"), fileOf("parameters.safetensors"), KERNELS, 0, context.cacheDir.path)
        try {
            if (checkpoint.exists()) trainer.load(checkpoint.path)
        } catch (error: Exception) {
            trainer.close()
            throw error
        }
        return trainer
    }

    /** The path of a file out of the assets, which are none themselves. Another version of the app has other files. */
    private fun fileOf(name: String): String {
        val version = context.packageManager.getPackageInfo(context.packageName, 0).lastUpdateTime
        val file = File(context.filesDir, "$version-$name")
        if (!file.exists()) {
            val partial = File(context.filesDir, "$name.part")
            context.assets.open("odtc/digits/$name").use { from -> partial.outputStream().use(from::copyTo) }
            check(partial.renameTo(file)) { "$file cannot be written" }
        }
        return file.path
    }

    private companion object {
        const val KERNELS = "libdigits_kernels.so"
    }
}
