package io.odtc;

import java.nio.charset.StandardCharsets;

/** What a trainer could not do. */
public final class TrainerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** An argument that a method does not take. */
    public static final int USAGE = 1;
    /** A file cannot be read, or written, as where a disk is full. */
    public static final int NO_FILE = 2;
    /** A file is not what odtc wrote. */
    public static final int DAMAGED = 3;
    /** Files are whole, and do not belong together. */
    public static final int MISFIT = 4;
    /** The system has no memory. */
    public static final int NO_MEMORY = 5;
    /** A label, an index or the learning rate is out of its bounds. */
    public static final int DATA = 6;
    /** The step was taken, and what it computed is not finite. */
    public static final int NOT_FINITE = 7;
    /** No plan of the step fits the budget. */
    public static final int BUDGET = 8;
    /** The step was cancelled. */
    public static final int CANCELLED = 9;
    /** A step was cancelled half way, and no checkpoint was loaded since. */
    public static final int TORN = 10;
    /** A kernel failed. */
    public static final int KERNEL = 11;
    /** A file asks for what this version does not do. */
    public static final int UNSUPPORTED = 12;
    /** The CPU lacks an instruction of the kernels. */
    public static final int CPU = 13;
    /** A folder has no room for a file in place of memory, or cannot be written. */
    public static final int NO_ROOM = 14;
    /** There is no such GPU, or it was lost, or its driver reports a failure. */
    public static final int DEVICE = 15;

    private final int code;

    TrainerException(int code, String message) {
        super(message);
        this.code = code;
    }

    /** By native code: a message in UTF-8. */
    TrainerException(int code, byte[] message) {
        this(code, new String(message, StandardCharsets.UTF_8));
    }

    /** What went wrong: one of the numbers above, which are those of odtc.h. */
    public int code() {
        return code;
    }
}
