plugins {
    // It has Kotlin built in from 9.0 on, and wants Gradle 9.1 and a JDK 17.
    id("com.android.application") version "9.0.0" apply false
}
