package io.odtc.example

import io.odtc.Trainer
import java.io.File

/**
 * The training of the digits, which goes on from the last checkpoint. Nothing of Android is in it.
 *
 * A process may be killed at any time: what was trained up to its last checkpoint is kept. As the batch of a step
 * follows from its number, the steps after that are taken again to the same bits.
 *
 * @param trainer is closed with it
 * @param checkpoint a file in a folder of its own
 * @throws io.odtc.TrainerException the checkpoint is damaged, or of another model
 */
class Training(private val trainer: Trainer, private val checkpoint: File) : AutoCloseable {
    private val images = trainer.tensor("image").asFloatBuffer()
    private val labels = trainer.tensor("label").asIntBuffer()

    /** The number of steps that were taken. */
    val steps: Long get() = trainer.steps()

    init {
        if (checkpoint.exists()) trainer.load(checkpoint.path)
    }

    /**
     * Takes a step, and writes its checkpoint.
     *
     * @return the mean loss of the batch before the update
     * @throws io.odtc.TrainerException the step is not finite, or the checkpoint cannot be written
     */
    fun step(): Double {
        Samples.write(steps, images, labels)
        val loss = trainer.step(LEARNING_RATE)
        if (steps % STEPS_TO_A_CHECKPOINT == 0L) save()
        return loss
    }

    /** Writes a checkpoint, whole or not at all. */
    fun save() = trainer.save(checkpoint.path)

    override fun close() = trainer.close()

    private companion object {
        const val LEARNING_RATE = 0.05f

        // So many steps are lost at most. A step of a larger model takes longer than its checkpoint: yours may write fewer.
        const val STEPS_TO_A_CHECKPOINT = 1L
    }
}
