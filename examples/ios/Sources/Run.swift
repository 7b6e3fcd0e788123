import Foundation

/// A request to stop, which any thread may make.
final class StopRequest: @unchecked Sendable {
  private let lock = NSLock()
  private var made = false

  var isMade: Bool {
    lock.lock()
    defer { lock.unlock() }
    return made
  }

  func make() {
    lock.lock()
    defer { lock.unlock() }
    made = true
  }
}

/// Training in the background of the app, until it is done, told to stop, or has to wait.
enum Run {
  enum End: Equatable {
    case done
    case stopped
    case waits(String)
    case failed(String)
  }

  /// Runs come one after the other: they have one checkpoint.
  private static let queue = DispatchQueue(label: "io.odtc.example.training", qos: .utility)

  /// Starts a run.
  ///
  /// - Parameters:
  ///   - onStep: is given the number of steps, the loss of the last one, and why training began anew, about
  ///     once a second.
  ///   - onEnd: is given why it ended. Both are called by another thread.
  static func start(
    until stop: StopRequest,
    onStep: @escaping (Int64, Double, String?) -> Void,
    onEnd: @escaping (End) -> Void
  ) {
    queue.async {
      let end: End
      do {
        end = try train(until: stop, onStep: onStep)
      } catch {
        end = .failed(error.localizedDescription)
      }
      onEnd(end)
    }
  }

  private static func train(
    until stop: StopRequest, onStep: (Int64, Double, String?) -> Void
  ) throws -> End {
    let training = try Training()
    var nextLook = DispatchTime.now()
    while !training.isDone && !stop.isMade {
      // What a step makes of paths and strings would stay until the end of the run.
      let loss = try autoreleasepool { try training.step() }
      let now = DispatchTime.now()
      if now < nextLook { continue }
      nextLook = now + 1
      onStep(training.steps, loss, training.notice)
      if let reason = Conditions.reasonToWait {
        try training.save()
        return .waits(reason)
      }
    }
    try training.save()
    return training.isDone ? .done : .stopped
  }
}
