// Declarations of what the example calls of androidx.lifecycle 2.10: as its documentation has them, and without code.
package androidx.lifecycle

interface LifecycleOwner

fun interface Observer<T> {
    fun onChanged(value: T)
}

abstract class LiveData<T> {
    fun observe(owner: LifecycleOwner, observer: Observer<in T>): Unit = TODO()
}
