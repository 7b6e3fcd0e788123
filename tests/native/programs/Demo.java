import io.odtc.Trainer;
import io.odtc.TrainerException;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;

/** Trains in a JVM: Demo FOLDER STEPS; prints each loss as its bits, then those of an evaluation. */
public final class Demo {
    public static void main(String[] words) {
        String folder = words[0];
        try (Trainer trainer = new Trainer(folder + "/program.bin", folder + "/parameters.safetensors",
                folder + "/step.so", 2)) {
            FloatBuffer image = trainer.tensor("image").asFloatBuffer();
            for (int n = 0; n < image.capacity(); ++n) image.put(n, (n * 37 % 101) / 50f - 1);
            ByteBuffer label = trainer.tensor("label");
            for (int n = 0; n < label.capacity() / 4; ++n) label.putInt(4 * n, n % 10);
            for (int n = 0; n < Integer.parseInt(words[1]); ++n) {
                if (n == 1) interrupt(trainer);
                System.out.println(Long.toHexString(Double.doubleToRawLongBits(trainer.step(0.05f))));
            }
            trainer.save(folder + "/jvm");
            trainer.step(0.05f);
            trainer.load(folder + "/jvm");
            System.out.println(trainer.steps());
            FloatBuffer logits = trainer.evaluate(null, false).asFloatBuffer();
            System.out.println(Integer.toHexString(Float.floatToRawIntBits(logits.get(7))));
            label.putInt(0, 10);
            trainer.step(0.05f);
        } catch (TrainerException error) {
            System.out.println(error.code() + " " + error.getMessage());
        }
    }

    private static void interrupt(Trainer trainer) {
        trainer.cancel(false);
        try {
            trainer.step(0.05f);
            throw new AssertionError("it was cancelled");
        } catch (TrainerException error) {
            if (error.code() != TrainerException.CANCELLED) throw error;
        }
    }
}
