package io.odtc;

/** What a trainer could not do. */
public final class TrainerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The code of a step that was cancelled. */
    public static final int CANCELLED = 9;

    private final int code;

    TrainerException(int code, String message) {
        super(message);
        this.code = code;
    }

    /** What went wrong, as a number of odtc.h. */
    public int code() {
        return code;
    }
}
