plugins {
    id("com.android.application")
}

android {
    namespace = "io.odtc.example"
    compileSdk = 36
    defaultConfig {
        applicationId = "io.odtc.example"
        minSdk = 23
        targetSdk = 36
        versionCode = 1
        versionName = "1"
        // What the archives have kernels for.
        ndk { abiFilters += "arm64-v8a" }
    }
    buildTypes {
        release {
            // The runtime's archive has the rules that its classes need, WorkManager's those of workers.
            isMinifyEnabled = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"))
        }
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
}

dependencies {
    // What `odtc export-app` wrote: the runtime once, and an archive for each model.
    implementation(files("libs/odtc-runtime.aar", "libs/digits.aar"))
    implementation("androidx.activity:activity:1.12.4")
    implementation("androidx.core:core:1.17.0")
    implementation("androidx.work:work-runtime:2.11.2")
}
