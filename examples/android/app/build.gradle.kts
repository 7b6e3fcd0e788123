plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "io.odtc.example"
    compileSdk = 34
    defaultConfig {
        applicationId = "io.odtc.example"
        minSdk = 23
        targetSdk = 34
        versionCode = 1
        versionName = "1"
        ndk { abiFilters += "arm64-v8a" }
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
    kotlinOptions { jvmTarget = "17" }
}

dependencies {
    // What `odtc export-app` wrote: the runtime once, and an archive for each model.
    implementation(files("libs/odtc-runtime.aar", "libs/digits.aar"))
    implementation("androidx.activity:activity-ktx:1.9.2")
    implementation("androidx.work:work-runtime-ktx:2.9.1")
}
