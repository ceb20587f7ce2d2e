// Package tree is YAML as a tree that remembers where each value was written: it is
// edited (overrides, inheritance, parameters) and then decoded into Go types, strictly.
// It knows nothing of scenarios: what keys there are, the types say by their tags.
package tree
