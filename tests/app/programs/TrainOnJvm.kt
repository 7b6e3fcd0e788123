package io.odtc.example

import io.odtc.Trainer
import io.odtc.TrainerException
import java.io.File

/** The training of the app in a JVM: FOLDER, of an artifact's members, CHECKPOINT, STEPS. */
fun main(words: Array<String>) {
    val (folder, checkpoint, steps) = words
    val weights = "$folder/parameters.safetensors"
    val trainer = Trainer("$folder/program.bin", weights, "$folder/step.so", 1, folder)
    try {
        Training(trainer, File(checkpoint)).use { training ->
            training.notice?.let(::println)
            if (training.steps > 0) println("goes on after step ${training.steps}")
            while (training.steps < steps.toLong()) {
                val loss = training.step()
                println("step ${training.steps} of $steps  loss $loss")
            }
        }
    } catch (error: TrainerException) {
        if (error.code() !in Training.PASSING) throw error
        println("later: ${error.message}")
    }
}
