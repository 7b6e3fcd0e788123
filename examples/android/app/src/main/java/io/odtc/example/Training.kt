package io.odtc.example

import io.odtc.Trainer
import io.odtc.TrainerException
import java.io.File
import java.io.IOException

/**
 * The training of the digits, which goes on from the last checkpoint. Nothing of Android is in it.
 *
 * A process may be killed at any time: what was trained up to its last checkpoint is kept. As the batch of a step
 * follows from its number, the steps after that are taken again to the same bits. A checkpoint that is of no use is set
 * aside, beside its path, and training begins anew from the weights of the app.
 *
 * @param trainer is closed with it
 * @param checkpoint a file in a folder of its own
 * @throws TrainerException the checkpoint cannot be read, or the first one cannot be written
 */
class Training(private val trainer: Trainer, private val checkpoint: File) : AutoCloseable {
    private val images = trainer.tensor("image").asFloatBuffer()
    private val labels = trainer.tensor("label").asIntBuffer()

    /** The number of steps that were taken. */
    val steps: Long get() = trainer.steps()

    /** Why training began anew, for the user; null where it did not. */
    var notice: String? = null
        private set

    private val diverged = File("${checkpoint.path}.not-finite")
    private val rate = if (diverged.exists()) LEARNING_RATE / 10 else LEARNING_RATE

    init {
        if (checkpoint.exists()) resume()
        if (!checkpoint.exists()) save()
    }

    /** Goes on from the checkpoint, unless an update of the app brought another step, or the file is damaged. */
    private fun resume() {
        try {
            trainer.load(checkpoint.path) // what it refuses changes nothing
        } catch (error: TrainerException) {
            if (error.code() !in UNFIT) throw error
            setAside(File("${checkpoint.path}.unfit"))
            notice = "training begins anew: ${error.message}"
        }
    }

    private fun setAside(place: File) {
        if (!checkpoint.renameTo(place)) throw IOException("$checkpoint cannot be renamed to $place")
    }

    /**
     * Takes a step, and writes its checkpoint.
     *
     * The same batch would not be finite again from the same checkpoint: where it is not, that is set aside, and the
     * next training begins anew with a smaller rate.
     *
     * @return the mean loss of the batch before the update
     * @throws TrainerException the step is not finite, or the checkpoint cannot be written
     */
    fun step(): Double = try {
        Samples.write(steps, images, labels)
        val loss = trainer.step(rate)
        if (steps % STEPS_TO_A_CHECKPOINT == 0L) save()
        loss
    } catch (error: TrainerException) {
        if (error.code() == TrainerException.NOT_FINITE) setAside(diverged)
        throw error
    }

    /** Writes a checkpoint, whole or not at all. */
    fun save() = trainer.save(checkpoint.path)

    override fun close() = trainer.close()

    companion object {
        /** Codes of what another night may not have: a disk or memory that is full. */
        val PASSING = setOf(TrainerException.NO_FILE, TrainerException.NO_MEMORY, TrainerException.NO_ROOM)

        private const val LEARNING_RATE = 0.05f

        // So many steps are lost at most. A step of a larger model takes longer than its checkpoint: yours may write
        // fewer.
        private const val STEPS_TO_A_CHECKPOINT = 1L

        /** Codes of a checkpoint that no later try takes up. */
        private val UNFIT =
            setOf(TrainerException.DAMAGED, TrainerException.MISFIT, TrainerException.UNSUPPORTED)
    }
}
