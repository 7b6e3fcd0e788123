package io.odtc.example

import android.content.Context
import io.odtc.Trainer
import java.io.File
import java.io.IOException

/** The step of the digits: its files, and its training. They are of no use in a backup, nor on another phone. */
class Model(private val context: Context) {
    /** The training, from its checkpoint or from the weights of the app. */
    fun training(): Training {
        val files = files()
        val program = fileOf(files, "program.bin")
        val trainer = Trainer(program, fileOf(files, "parameters.safetensors"), KERNELS, 0, context.cacheDir.path)
        try {
            val folder = File(context.noBackupFilesDir, "training").apply { mkdirs() }
            return Training(trainer, File(folder, "checkpoint"))
        } catch (error: Exception) {
            trainer.close()
            throw error
        }
    }

    /** The folder for files out of the assets of this version of the app; those of others are removed. */
    private fun files(): File {
        val version = context.packageManager.getPackageInfo(context.packageName, 0).lastUpdateTime
        val all = File(context.noBackupFilesDir, "digits")
        all.listFiles()?.filter { it.name != "$version" }?.forEach(File::deleteRecursively)
        return File(all, "$version").apply { mkdirs() }
    }

    /** The path of a file out of the assets, which are none themselves. */
    private fun fileOf(folder: File, name: String): String {
        val file = File(folder, name)
        if (!file.exists()) {
            val partial = File(folder, "$name.part")
            context.assets.open("odtc/digits/$name").use { from ->
                partial.outputStream().use { to ->
                    from.copyTo(to)
                    to.fd.sync() // or the name may be on the disk before its bytes are
                }
            }
            if (!partial.renameTo(file)) throw IOException("$file cannot be written")
        }
        return file.path
    }

    private companion object {
        const val KERNELS = "libdigits_kernels.so"
    }
}
