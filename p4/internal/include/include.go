// Package include holds the declarations that P4_16 programs include: the core
// library (core.p4) and the architectures that Sluice runs. Names and
// signatures are those of the language specification (appendix D) and of the
// architectures; the text is our own. Builtin is what parse.Options.Builtin
// wants.
package include

import "embed"

//go:embed *.p4
var files embed.FS

// Builtin reads one of the built-in files, as "core.p4".
func Builtin(name string) ([]byte, error) { return files.ReadFile(name) }
