// Package nicvalidate holds the NIC model against published measurements of NICs and
// PCIe devices (docs/nic-validation.md).
//
// published.yaml has the figures, with their sources and what the model may use them
// for: presets are set from rows to fit, never from rows to predict. A Measurement
// takes one row's figures from the model: rates and latencies through the verbs API of
// package simverbs, rows of a PCIe device through the model's link and DMA engine,
// facts from what the devices say of themselves. Where the model lacks a
// mechanism or a preset, it says so instead of a figure.
//
// All is deterministic, and takes seconds.
package nicvalidate

//go:generate go run ./internal/write -o ../../../docs/nic-validation.md
