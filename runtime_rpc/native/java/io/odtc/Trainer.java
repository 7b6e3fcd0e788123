package io.odtc;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/**
 * A training step at work on this device: odtc.h for the JVM, and for Kotlin.
 *
 * <pre>
 * try (Trainer trainer = new Trainer("program.bin", "parameters.safetensors", "step.so", 2)) {
 *     trainer.tensor("image").asFloatBuffer().put(pixels);
 *     trainer.tensor("label").asIntBuffer().put(classes);
 *     double loss = trainer.step(0.05f);
 * }
 * </pre>
 *
 * One thread at a time may use a trainer; {@link #cancel} may be called by any, at any time. The
 * library {@code libodtc} has to be among the process's own.
 */
public final class Trainer implements AutoCloseable {
    static {
        System.loadLibrary("odtc");
    }

    private long handle;

    /**
     * Makes a trainer of three files of an artifact.
     *
     * @param program path of {@code program.bin}
     * @param weights path of {@code parameters.safetensors}
     * @param library path of the kernels; or, without a folder, the name of a library that the system
     *     finds, such as {@code libdigits_kernels.so} in the package of an app
     * @param threads of a step; 0 for one for each core, as far as the kernels allow it
     * @throws TrainerException a file cannot be read, or does not fit
     */
    public Trainer(String program, String weights, String library, int threads) {
        this(program, weights, library, threads, null);
    }

    /**
     * The same with a folder for files in which tensors of a step wait, where some do.
     *
     * @param storage the folder, such as an app's {@code getCacheDir()}; the current one if null, into
     *     which no app on Android can write
     */
    public Trainer(String program, String weights, String library, int threads, String storage) {
        handle = open(bytes(program), bytes(weights), bytes(library), threads, bytes(storage));
    }

    /**
     * The memory of a tensor of the step: inputs and labels are written there, weights are read there.
     *
     * <p>It is in the byte order of the device, and may not be used after {@link #close}.
     *
     * @return null if there is none of that name
     */
    public ByteBuffer tensor(String name) {
        ByteBuffer memory = memory(opened(), bytes(name));
        return memory == null ? null : memory.order(ByteOrder.nativeOrder());
    }

    /**
     * The shape of a tensor of the step; of inputs and labels, at the length of {@link #setLength}.
     *
     * @return null if there is none of that name
     */
    public long[] shape(String name) {
        return shape(opened(), bytes(name));
    }

    /**
     * Takes a step with what was written to inputs and labels.
     *
     * @return the mean loss of the batch before the update; 0 of a batch without a label that counts, as where all are
     *     those that the loss ignores, whose gradients are 0, too: leave it out of a mean over steps
     * @throws TrainerException something fed is out of its bounds, or the step is not finite
     */
    public double step(float learningRate) {
        return step(opened(), learningRate);
    }

    /** The number of steps that were taken, those of a checkpoint included. */
    public long steps() {
        return steps(opened());
    }

    /**
     * An output of what was written to the inputs, in inference mode.
     *
     * @param output its name; null for the first
     * @param averages whether moving averages take the places of parameters
     * @return memory that stays until the next step or evaluation
     */
    public ByteBuffer evaluate(String output, boolean averages) {
        return evaluate(output, averages, samplesOfStep());
    }

    /**
     * The same of the first samples of what was written to the inputs; what the rest of them holds is not read.
     *
     * @param output its name; null for the first
     * @param averages whether moving averages take the places of parameters
     * @param samples 1 to as many as a step has
     * @return memory that stays until the next step or evaluation
     */
    public ByteBuffer evaluate(String output, boolean averages, int samples) {
        return evaluate(opened(), bytes(output), averages, samples).order(ByteOrder.nativeOrder());
    }

    /** The samples of a step. */
    public int samplesOfStep() {
        return samplesOfStep(opened());
    }

    /**
     * The lengths, such as numbers of tokens, that the step was compiled for ({@code odtc compile
     * --lengths}): the longest first, with which a trainer begins. None where it has one size alone.
     */
    public long[] lengths() {
        return lengths(opened());
    }

    /**
     * Takes steps and evaluations from now on at one of the {@link #lengths}. Inputs and labels have other
     * shapes then: ask for their memory anew, and write all of it. A buffer of before has the size of another
     * length. Rows that are shorter are filled up by the app: labels with the value that the loss ignores,
     * a mask with zeros.
     *
     * @throws TrainerException the step was not compiled for it; nothing is changed
     */
    public void setLength(long length) {
        setLength(opened(), length);
    }

    /** Takes steps from now on by the fastest plan whose tensors fit in so many bytes. */
    public void setBudget(long bytes) {
        setBudget(opened(), bytes);
    }

    /** Writes weights, state and the number of steps to a file, whole or not at all. */
    public void save(String path) {
        save(opened(), bytes(path));
    }

    /**
     * Writes the same without weights that are not trained: one adapter of a step with LoRA, with its state and
     * number of steps. {@link #load(String)} takes it up, and leaves the base as it is.
     */
    public void saveAdapter(String path) {
        saveAdapter(opened(), bytes(path));
    }

    /** Takes them up again; what is damaged, or does not fit, changes nothing. */
    public void load(String path) {
        load(opened(), bytes(path));
    }

    /**
     * The bytes of a file of {@link #save}.
     *
     * @throws TrainerException what is trained is not finite, or there is no memory
     */
    public byte[] checkpoint() {
        return saveBytes(opened());
    }

    /** Takes up the bytes of such a file; what is damaged, or does not fit, changes nothing. */
    public void load(byte[] checkpoint) {
        loadBytes(opened(), checkpoint);
    }

    /** Writes what a step is fed to the memory of its inputs and labels. */
    public interface Feed {
        /** @param step number of the step, from 0 on */
        void write(long step);
    }

    /** The learning rate of each step. */
    public interface Rate {
        /** @param step number of the step, from 0 on */
        float at(long step);
    }

    /** Hears of each step that was taken. */
    public interface Progress {
        /**
         * @param steps that were taken, those of a checkpoint included
         * @param loss the mean loss of the batch before the update
         * @return whether to go on
         */
        boolean took(long steps, double loss);
    }

    /**
     * Takes steps until there are so many, those of a checkpoint included. Batches and rates follow from
     * the step's number, so that training goes on from a checkpoint as it would have gone on.
     *
     * @param progress is called by this thread, and may save a checkpoint
     * @return whether all were taken: not where {@code progress} ended it, or {@link #cancel} did
     * @throws TrainerException something fed is out of its bounds, or a step is not finite
     */
    public boolean train(long steps, Rate rate, Feed feed, Progress progress) {
        while (steps() < steps) {
            long number = steps();
            feed.write(number);
            double loss;
            try {
                loss = step(rate.at(number));
            } catch (TrainerException end) {
                if (end.code() == TrainerException.CANCELLED) return false;
                throw end;
            }
            if (!progress.took(steps(), loss)) return false;
        }
        return true;
    }

    /**
     * Lets the step that runs, or the next one, end with {@link TrainerException#CANCELLED}.
     *
     * @param now whether it ends between two kernels: only {@link #load} makes the weights whole then
     */
    public void cancel(boolean now) {
        cancel(opened(), now);
    }

    /** Gives back its memory. No other thread may use it meanwhile, nor cancel it. */
    @Override
    public void close() {
        long given = handle;
        handle = 0;
        close(given);
    }

    private long opened() {
        if (handle == 0) throw new IllegalStateException("the trainer is closed");
        return handle;
    }

    /**
     * A name or a path for C: UTF-8 and a zero. JNI's own bytes of a string are of another UTF-8, in which
     * characters beyond 16 bits have six bytes, and a file would have another name.
     */
    private static byte[] bytes(String text) {
        if (text == null) return null;
        if (text.indexOf('\0') >= 0) throw unusable(text);
        try {
            ByteBuffer found = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] bytes = new byte[found.remaining() + 1];
            found.get(bytes, 0, bytes.length - 1);
            return bytes;
        } catch (CharacterCodingException half) {
            throw unusable(text);
        }
    }

    private static TrainerException unusable(String text) {
        String what = " has a zero or half a character, which neither a name nor a path may have";
        return new TrainerException(TrainerException.USAGE, text + what);
    }

    private static native long open(
            byte[] program, byte[] weights, byte[] library, int threads, byte[] storage);

    private static native ByteBuffer memory(long handle, byte[] name);

    private static native long[] shape(long handle, byte[] name);

    private static native double step(long handle, float learningRate);

    private static native long steps(long handle);

    private static native ByteBuffer evaluate(
            long handle, byte[] output, boolean averages, int samples);

    private static native int samplesOfStep(long handle);

    private static native long[] lengths(long handle);

    private static native void setLength(long handle, long length);

    private static native void setBudget(long handle, long bytes);

    private static native void save(long handle, byte[] path);

    private static native void saveAdapter(long handle, byte[] path);

    private static native void load(long handle, byte[] path);

    private static native byte[] saveBytes(long handle);

    private static native void loadBytes(long handle, byte[] checkpoint);

    private static native void cancel(long handle, boolean now);

    private static native void close(long handle);
}
