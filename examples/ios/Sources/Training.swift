import COdtc
import DigitsModel
import Foundation
import Odtc

/// The training of the digits, which goes on from the last checkpoint.
///
/// The system may end the app at any time: what was trained up to its last checkpoint is kept. As the batch
/// of a step follows from its number, the steps after that are taken again to the same bits. A checkpoint that
/// is of no use is set aside, beside its path, and training begins anew from the weights of the app.
final class Training {
  static let steps: Int64 = 2000
  private static let learningRate: Float = 0.05
  /// So many steps are lost at most. A step of a larger model takes longer than its checkpoint: yours may
  /// write fewer.
  private static let stepsToACheckpoint: Int64 = 1
  /// Codes of a checkpoint that no later try takes up.
  private static let unfit = [ODTC_DAMAGED, ODTC_MISFIT, ODTC_UNSUPPORTED].map { $0.rawValue }

  private let trainer: Trainer
  private let checkpoint: URL
  private let images: UnsafeMutableBufferPointer<Float>
  private let labels: UnsafeMutableBufferPointer<Int32>
  private let rate: Float
  /// Why training began anew, for the user; nil where it did not.
  private(set) var notice: String?

  /// The number of steps that were taken.
  var steps: Int64 { trainer.steps }
  var isDone: Bool { steps >= Self.steps }

  /// Throws where the checkpoint cannot be read, or the first one cannot be written.
  init() throws {
    let trainer = try DigitsModel.trainer()
    self.trainer = trainer
    images = trainer.tensor("image")!.bindMemory(to: Float.self)
    labels = trainer.tensor("label")!.bindMemory(to: Int32.self)
    let checkpoint = try Training.folder().appendingPathComponent("checkpoint")
    self.checkpoint = checkpoint
    let files = FileManager.default
    let diverged = checkpoint.appendingPathExtension("not-finite")
    rate = Self.learningRate / (files.fileExists(atPath: diverged.path) ? 10 : 1)
    if files.fileExists(atPath: checkpoint.path) { try resume() }
    if !files.fileExists(atPath: checkpoint.path) { try save() }
  }

  /// Goes on from the checkpoint, unless an update of the app brought another step, or the file is damaged.
  private func resume() throws {
    do {
      try trainer.load(from: checkpoint)  // what it refuses changes nothing
    } catch let error as TrainerError where Self.unfit.contains(error.code) {
      try setAside("unfit")
      notice = "training begins anew: \(error.message)"
    }
  }

  private func setAside(_ why: String) throws {
    let files = FileManager.default
    let place = checkpoint.appendingPathExtension(why)
    if files.fileExists(atPath: place.path) { try files.removeItem(at: place) }
    try files.moveItem(at: checkpoint, to: place)
  }

  /// Takes a step, and writes its checkpoint; the mean loss of the batch before the update.
  ///
  /// The same batch would not be finite again from the same checkpoint: where it is not, that is set aside, and
  /// the next training begins anew with a smaller rate.
  func step() throws -> Double {
    do {
      Samples.write(step: steps, images: images, labels: labels)
      let loss = try trainer.step(learningRate: rate)
      if steps % Self.stepsToACheckpoint == 0 { try save() }
      return loss
    } catch let error as TrainerError where error.code == ODTC_NOT_FINITE.rawValue {
      try setAside("not-finite")
      throw error
    }
  }

  /// Writes a checkpoint, whole or not at all.
  func save() throws { try trainer.save(to: checkpoint) }

  /// The folder of the checkpoint, and of those that were set aside.
  private static func folder() throws -> URL {
    let files = FileManager.default
    let support = try files.url(
      for: .applicationSupportDirectory, in: .userDomainMask, appropriateFor: nil, create: true)
    var folder = support.appendingPathComponent("training", isDirectory: true)
    try files.createDirectory(at: folder, withIntermediateDirectories: true)
    var values = URLResourceValues()
    values.isExcludedFromBackup = true
    try folder.setResourceValues(values)
    return folder
  }
}
