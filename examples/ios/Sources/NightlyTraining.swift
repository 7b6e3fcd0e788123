import BackgroundTasks
import os

/// Training while the phone charges and nobody uses it: a task for which the system starts the app.
enum NightlyTraining {
  /// It is in Info.plist, too.
  private static let identifier = "io.odtc.example.training"
  private static let log = Logger(subsystem: "io.odtc.example", category: "training")

  /// Says what runs the task: once, and before the app has finished launching.
  static func register() {
    let isPermitted = BGTaskScheduler.shared.register(
      forTaskWithIdentifier: identifier, using: nil
    ) { task in
      run(task)
    }
    if !isPermitted { log.error("Info.plist does not permit \(identifier, privacy: .public)") }
  }

  /// Asks for a time at night, in place of what was asked for before.
  static func schedule() {
    let request = BGProcessingTaskRequest(identifier: identifier)
    request.requiresExternalPower = true
    request.requiresNetworkConnectivity = false
    do {
      try BGTaskScheduler.shared.submit(request)
    } catch {
      // As on a simulator, or where the user has switched off that apps refresh in the background.
      log.error("training is not scheduled: \(error.localizedDescription, privacy: .public)")
    }
  }

  private static func run(_ task: BGTask) {
    // The next night, if this one is not enough.
    schedule()
    let stop = StopRequest()
    // The system wants the phone back: the step that runs is finished, within the seconds that are left.
    task.expirationHandler = { stop.make() }
    Run.start(until: stop, onStep: { _, _, _ in }) { end in
      if case .failed(let message) = end { log.error("training failed: \(message, privacy: .public)") }
      if end == .done { BGTaskScheduler.shared.cancel(taskRequestWithIdentifier: identifier) }
      task.setTaskCompleted(success: end == .done)
    }
  }
}
