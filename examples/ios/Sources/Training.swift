import DigitsModel
import Foundation
import Odtc

/// The training of the digits, which goes on from the last checkpoint.
///
/// The system may end the app at any time: what was trained up to its last checkpoint is kept. As the batch
/// of a step follows from its number, the steps after that are taken again to the same bits.
final class Training {
  static let steps: Int64 = 2000
  private static let learningRate: Float = 0.05
  /// So many steps are lost at most. A step of a larger model takes longer than its checkpoint: yours may
  /// write fewer.
  private static let stepsToACheckpoint: Int64 = 1

  private let trainer: Trainer
  private let checkpoint: URL
  private let images: UnsafeMutableBufferPointer<Float>
  private let labels: UnsafeMutableBufferPointer<Int32>

  /// The number of steps that were taken.
  var steps: Int64 { trainer.steps }
  var isDone: Bool { steps >= Self.steps }

  /// Throws where the checkpoint is damaged, or of another model.
  init() throws {
    let trainer = try DigitsModel.trainer()
    self.trainer = trainer
    images = trainer.tensor("image")!.bindMemory(to: Float.self)
    labels = trainer.tensor("label")!.bindMemory(to: Int32.self)
    checkpoint = try Training.folder().appendingPathComponent("checkpoint")
    if FileManager.default.fileExists(atPath: checkpoint.path) {
      try trainer.load(from: checkpoint)
    }
  }

  /// Takes a step, and writes its checkpoint; the mean loss of the batch before the update.
  func step() throws -> Double {
    Samples.write(step: steps, images: images, labels: labels)
    let loss = try trainer.step(learningRate: Self.learningRate)
    if steps % Self.stepsToACheckpoint == 0 { try save() }
    return loss
  }

  /// Writes a checkpoint, whole or not at all.
  func save() throws { try trainer.save(to: checkpoint) }

  /// The folder of the checkpoint, and of nothing else: what the app had written of the next one when it was
  /// ended is removed.
  private static func folder() throws -> URL {
    let files = FileManager.default
    let support = try files.url(
      for: .applicationSupportDirectory, in: .userDomainMask, appropriateFor: nil, create: true)
    var folder = support.appendingPathComponent("training", isDirectory: true)
    try files.createDirectory(at: folder, withIntermediateDirectories: true)
    var values = URLResourceValues()
    values.isExcludedFromBackup = true
    try folder.setResourceValues(values)
    let found = try files.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    for file in found where file.lastPathComponent != "checkpoint" {
      try files.removeItem(at: file)
    }
    return folder
  }
}
