// Package nicvalidate compares the NIC model with published measurements of NICs and
// PCIe devices (docs/nic-figures.md).
//
// published.yaml has the figures, with their sources and their class: fit, seen or blind, by
// the rule that the page states. blind.yaml has the blind ones as they were taken down,
// blindruns.yaml how each is run, blindfirst.yaml what it came to first. A Measurement
// takes one row's figures from the model: rates and latencies through the verbs API of
// package simverbs, rows of a PCIe device through the model's link and DMA engine,
// facts from the devices' attributes. Where the model lacks a mechanism or a preset,
// it reports that instead of a figure.
//
// Every measurement is deterministic. All of them take seconds.
package nicvalidate

//go:generate go run ./internal/write -o ../../../docs/nic-figures.md -first blindfirst.yaml
