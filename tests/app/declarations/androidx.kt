// Declarations of what the example calls of androidx.activity 1.12: as its documentation has them, and without code.
package androidx.activity

import android.app.Activity
import android.os.Bundle
import androidx.lifecycle.LifecycleOwner

open class ComponentActivity : Activity(), LifecycleOwner {
    override fun onCreate(savedInstanceState: Bundle?): Unit = TODO()
}
