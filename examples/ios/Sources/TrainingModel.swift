import Combine
import Foundation

/// What the screen shows of training that the user has started.
@MainActor
final class TrainingModel: ObservableObject {
  @Published private(set) var text = "It trains at night, while the phone charges."
  @Published private(set) var progress = 0.0
  @Published private var request: StopRequest?

  var isRunning: Bool { request != nil }

  func start() {
    guard request == nil else { return }
    let stop = StopRequest()
    request = stop
    Run.start(
      until: stop,
      onStep: { steps, loss, notice in Task { @MainActor in self.show(steps, loss, notice) } },
      onEnd: { end in Task { @MainActor in self.finish(end) } })
  }

  /// Ends it after the step that runs.
  func stop() { request?.make() }

  private func show(_ steps: Int64, _ loss: Double, _ notice: String?) {
    guard isRunning else { return }
    progress = Double(steps) / Double(Training.steps)
    text = "step \(steps) of \(Training.steps), loss " + String(format: "%.4f", loss)
    if let notice = notice { text += "\n" + notice }
  }

  private func finish(_ end: Run.End) {
    request = nil
    switch end {
    case .done:
      progress = 1
      text = "trained"
    case .stopped: text = "stopped"
    case .waits(let reason): text = "it waits: \(reason)"
    case .failed(let message): text = message
    }
  }
}
