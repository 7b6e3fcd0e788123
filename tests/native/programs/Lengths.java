import io.odtc.Trainer;
import io.odtc.TrainerException;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * A step at each length in a JVM: Lengths FOLDER LENGTH...; prints the lengths, the shape and bytes of the inputs
 * and the bits of the loss at each, and what is said of lengths that there are none of. Rows are one place shorter
 * than the length, and filled up.
 */
public final class Lengths {
    private static final int IGNORED = -100;

    public static void main(String[] words) {
        String folder = words[0];
        String weights = folder + "/parameters.safetensors";
        try (Trainer trainer = new Trainer(folder + "/program.bin", weights, folder + "/step.so", 1)) {
            System.out.println(Arrays.toString(trainer.lengths()));
            for (int n = 1; n < words.length; ++n) {
                trainer.setLength(Long.parseLong(words[n]));
                long[] shape = trainer.shape("input_ids");
                int length = (int) shape[1];
                ByteBuffer ids = trainer.tensor("input_ids");
                ByteBuffer labels = trainer.tensor("label");
                for (int each = 0; each < shape[0] * length; ++each) {
                    boolean there = each % length < length - 1;
                    ids.putLong(8 * each, there ? n : 0);
                    labels.putInt(4 * each, there ? n + 1 : IGNORED);
                }
                long loss = Double.doubleToRawLongBits(trainer.step(0.1f));
                long scores = trainer.evaluate(null, false).capacity();
                System.out.println(Arrays.toString(shape) + " " + ids.capacity() + " " + scores);
                System.out.println(Long.toHexString(loss));
            }
            System.out.println(trainer.shape("none") == null);
            refuse(trainer, 5);
            refuse(trainer, 0);
            refuse(trainer, -1);
        }
    }

    private static void refuse(Trainer trainer, long length) {
        long before = trainer.shape("input_ids")[1];
        try {
            trainer.setLength(length);
            throw new AssertionError("it took " + length);
        } catch (TrainerException error) {
            System.out.println(error.code() + " " + error.getMessage());
        }
        if (trainer.shape("input_ids")[1] != before) throw new AssertionError("it was changed");
    }
}
