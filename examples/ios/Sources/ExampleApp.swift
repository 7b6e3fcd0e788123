import SwiftUI
import UIKit

@main
struct ExampleApp: App {
  @UIApplicationDelegateAdaptor(AppDelegate.self) private var delegate
  @Environment(\.scenePhase) private var phase
  @StateObject private var model = TrainingModel()

  var body: some Scene {
    WindowGroup {
      ContentView(model: model)
    }
    .onChange(of: phase) { phase in
      // An app that is not seen is suspended, and may be ended: it goes on at night, or when it is seen again.
      guard phase == .background else { return }
      model.stop()
      NightlyTraining.schedule()
    }
  }
}

final class AppDelegate: NSObject, UIApplicationDelegate {
  func application(
    _ application: UIApplication,
    didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]? = nil
  ) -> Bool {
    NightlyTraining.register()
    return true
  }
}

struct ContentView: View {
  @ObservedObject var model: TrainingModel

  var body: some View {
    VStack(spacing: 16) {
      ProgressView(value: model.progress)
      Text(model.text)
      if model.isRunning {
        Button("Stop") { model.stop() }
      } else {
        Button("Train now") { model.start() }
      }
    }
    .padding()
  }
}
