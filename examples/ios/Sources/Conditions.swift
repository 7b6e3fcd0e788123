import Foundation

/// What a phone is to be like for training, beside what the task of the night asks of it.
enum Conditions {
  /// Why training should wait; nil where nothing is in its way.
  static var reasonToWait: String? {
    let process = ProcessInfo.processInfo
    if process.isLowPowerModeEnabled { return "low power mode is on" }
    switch process.thermalState {
    case .nominal, .fair: return nil
    case .serious, .critical: return "the phone is hot"
    @unknown default: return "the phone is hot"
    }
  }
}
