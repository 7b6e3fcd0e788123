package io.odtc.example

import java.nio.FloatBuffer
import java.nio.IntBuffer
import java.util.Random

/** Images of 8 by 8 that are made here: a bright row or column for each class, in noise. */
object Samples {
    private const val CLASSES = 10
    private const val SIDE = 8
    private const val PIXELS = SIDE * SIDE

    /** Writes the batch of a step to its memory; the same step has the same batch, also after a stop. */
    fun write(step: Long, images: FloatBuffer, labels: IntBuffer) {
        // Java's, whose numbers are specified: those of Kotlin may be others in another version.
        val random = Random(step)
        for (sample in 0 until labels.capacity()) {
            val kind = random.nextInt(CLASSES)
            labels.put(sample, kind)
            for (pixel in 0 until PIXELS) {
                val line = if (kind < CLASSES / 2) pixel / SIDE else pixel % SIDE
                val bright = if (line == kind % (CLASSES / 2)) 1f else 0f
                images.put(PIXELS * sample + pixel, bright + 0.3f * (random.nextFloat() - 0.5f))
            }
        }
    }
}
