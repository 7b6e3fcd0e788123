import io.odtc.Trainer;
import io.odtc.TrainerException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Trains in a JVM: Demo FOLDER STEPS NAME; prints each loss as its bits, and those of an evaluation. What goes on
 * from its checkpoint has kernels that the loader finds by their name.
 */
public final class Demo {
    public static void main(String[] words) throws IOException {
        String folder = words[0];
        try (Trainer trainer = opened(folder, folder + "/step.so")) {
            ByteBuffer label = feed(trainer);
            for (int n = 0; n < Integer.parseInt(words[1]); ++n) {
                if (n == 1) interrupt(trainer);
                System.out.println(Long.toHexString(Double.doubleToRawLongBits(trainer.step(0.05f))));
            }
            trainer.save(folder + "/jvm");
            trainer.step(0.05f);
            trainer.load(folder + "/jvm");
            System.out.println(trainer.steps());
            inMemory(trainer, folder + "/jvm");
            named(trainer, folder);
            try (Trainer later = opened(folder, words[2])) {
                feed(later);
                later.load(folder + "/jvm");
                System.out.println(Long.toHexString(Double.doubleToRawLongBits(later.step(0.05f))));
            }
            FloatBuffer logits = trainer.evaluate(null, false).asFloatBuffer();
            System.out.println(Integer.toHexString(Float.floatToRawIntBits(logits.get(7))));
            FloatBuffer some = trainer.evaluate(null, false, 3).asFloatBuffer();
            System.out.println(trainer.samplesOfStep() + " " + some.capacity());
            System.out.println(Integer.toHexString(Float.floatToRawIntBits(some.get(29))));
            label.putInt(0, 10);
            trainer.step(0.05f);
        } catch (TrainerException error) {
            System.out.println(error.code() + " " + error.getMessage());
        }
    }

    /** Trains in a loop, which is stopped in two ways, and takes up a checkpoint that no file holds. */
    private static void inMemory(Trainer trainer, String file) throws IOException {
        byte[] checkpoint = trainer.checkpoint();
        require(Arrays.equals(checkpoint, Files.readAllBytes(Path.of(file))));
        long first = trainer.steps();
        List<Long> seen = new ArrayList<>();
        Trainer.Rate rate = step -> 0.05f / (1 + step);
        Trainer.Progress heard = (steps, loss) -> seen.add(steps) && Double.isFinite(loss);
        require(trainer.train(first + 3, rate, step -> seen.add(-step), heard));
        require(seen.equals(List.of(-first, first + 1, -first - 1, first + 2, -first - 2, first + 3)));
        require(trainer.train(first + 3, rate, step -> require(false), heard));
        require(!trainer.train(first + 9, rate, step -> { }, (steps, loss) -> steps < first + 5));
        require(trainer.steps() == first + 5);
        require(!trainer.train(first + 9, rate, step -> trainer.cancel(false), heard));
        require(trainer.steps() == first + 5);
        byte[] damaged = checkpoint.clone();
        damaged[damaged.length - 1] ^= 1;
        for (byte[] each : new byte[][] {damaged, Arrays.copyOf(checkpoint, 7), new byte[0]}) {
            try {
                trainer.load(each);
                require(false);
            } catch (TrainerException error) {
                require(error.code() == 3 && trainer.steps() == first + 5);
            }
        }
        trainer.load(checkpoint);
        require(Arrays.equals(trainer.checkpoint(), checkpoint));
    }

    /** Names are Unicode, in files and in messages; what is no text is refused, and has no file. */
    private static void named(Trainer trainer, String folder) {
        String beyond = folder + "/c\uD83D\uDE00\u00E9.ckpt";
        trainer.save(beyond);
        trainer.load(beyond);
        trainer.saveAdapter(beyond);
        trainer.load(beyond);
        require(trainer.tensor("\uD83D\uDE00") == null);
        try {
            trainer.load(beyond + ".none");
            require(false);
        } catch (TrainerException error) {
            require(error.code() == TrainerException.NO_FILE && error.getMessage().contains(beyond));
        }
        for (String bad : new String[] {"a\0b", "a\uD83D", "\uDE00b", "\uDE00\uD83D"}) {
            try {
                trainer.save(folder + "/" + bad);
                require(false);
            } catch (TrainerException error) {
                require(error.code() == TrainerException.USAGE);
            }
        }
    }

    private static void require(boolean holds) {
        if (!holds) throw new AssertionError();
    }

    private static Trainer opened(String folder, String library) {
        String weights = folder + "/parameters.safetensors";
        return new Trainer(folder + "/program.bin", weights, library, 2, folder);
    }

    private static ByteBuffer feed(Trainer trainer) {
        FloatBuffer image = trainer.tensor("image").asFloatBuffer();
        for (int n = 0; n < image.capacity(); ++n) image.put(n, (n * 37 % 101) / 50f - 1);
        ByteBuffer label = trainer.tensor("label");
        for (int n = 0; n < label.capacity() / 4; ++n) label.putInt(4 * n, n % 10);
        return label;
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
