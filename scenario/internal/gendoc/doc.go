// Command gendoc writes docs/scenarios.md: the keys, values and defaults come from
// the types of package scenario and of the engines, the text from the comments on
// their fields.
package main
