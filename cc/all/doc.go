// Package all registers every built-in rate engine with package cc. A program
// that lets its users choose an engine by name imports it for that effect.
package all
