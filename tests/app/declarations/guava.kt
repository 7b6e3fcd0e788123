// Declarations of what the example calls of Guava's listenablefuture 1.0: as its documentation has them, and without code.
package com.google.common.util.concurrent

import java.util.concurrent.Future

interface ListenableFuture<V> : Future<V>
