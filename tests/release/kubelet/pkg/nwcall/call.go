// Package nwcall calls functions whose parameters differ a little between releases.
//
// A parameter is filled with the first argument not used yet that fits its type; a context or a
// logger that nobody gave is made; arguments that no parameter takes are left out.  So one caller
// serves releases that added a context, a logger or dropped an argument.
package nwcall

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/klog/v2"
)

var (
	contextType = reflect.TypeFor[context.Context]()
	loggerType  = reflect.TypeFor[klog.Logger]()
)

// Func calls fn and returns its results.
func Func(fn any, args ...any) []any {
	return call(reflect.ValueOf(fn), fmt.Sprintf("%T", fn), args)
}

// Method calls the method of that name and returns its results.
func Method(receiver any, name string, args ...any) []any {
	method := reflect.ValueOf(receiver).MethodByName(name)
	if !method.IsValid() {
		panic(fmt.Sprintf("%T has no method %s", receiver, name))
	}
	return call(method, name, args)
}

// Has says whether the receiver has a method of that name.
func Has(receiver any, name string) bool {
	return reflect.ValueOf(receiver).MethodByName(name).IsValid()
}

// Error is the last of the results, when it is an error.
func Error(results []any) error {
	if len(results) == 0 {
		return nil
	}
	err, _ := results[len(results)-1].(error)
	return err
}

func call(fn reflect.Value, name string, args []any) []any {
	used := make([]bool, len(args))
	var in []reflect.Value
	for i := range fn.Type().NumIn() {
		param := fn.Type().In(i)
		if fn.Type().IsVariadic() && i == fn.Type().NumIn()-1 {
			break
		}
		value, ok := pick(param, args, used)
		if !ok {
			panic(fmt.Sprintf("%s: nothing fits parameter %d of type %s", name, i, param))
		}
		in = append(in, value)
	}
	var out []any
	for _, result := range fn.Call(in) {
		out = append(out, result.Interface())
	}
	return out
}

func pick(param reflect.Type, args []any, used []bool) (reflect.Value, bool) {
	switch param {
	case contextType:
		return reflect.ValueOf(context.Background()), true
	case loggerType:
		return reflect.ValueOf(klog.Background()), true
	}
	for i, arg := range args {
		if used[i] {
			continue
		}
		if arg == nil {
			switch param.Kind() {
			case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func:
				used[i] = true
				return reflect.Zero(param), true
			}
			continue
		}
		value := reflect.ValueOf(arg)
		switch {
		case value.Type().AssignableTo(param):
			used[i] = true
			return value, true
		case param.Kind() == reflect.String && value.Type() == reflect.TypeFor[string]():
			used[i] = true
			return value.Convert(param), true
		case param.Kind() == reflect.Func && value.Kind() == reflect.Func && sameShape(value.Type(), param):
			used[i] = true
			return adapt(value, param), true
		}
	}
	return reflect.Value{}, false
}

// sameShape: the results agree, and each parameter of the given function can be filled.
func sameShape(given, wanted reflect.Type) bool {
	if given.NumOut() != wanted.NumOut() {
		return false
	}
	for i := range given.NumOut() {
		if !given.Out(i).AssignableTo(wanted.Out(i)) {
			return false
		}
	}
	for i := range given.NumIn() {
		fits := given.In(i) == loggerType
		for j := range wanted.NumIn() {
			fits = fits || wanted.In(j).AssignableTo(given.In(i))
		}
		if !fits {
			return false
		}
	}
	plain := func(t reflect.Type) (n int) {
		for i := range t.NumIn() {
			if t.In(i) != contextType && t.In(i) != loggerType {
				n++
			}
		}
		return
	}
	return plain(given) == 0 && plain(wanted) == 0 || plain(given) > 0 && plain(wanted) > 0
}

func adapt(given reflect.Value, wanted reflect.Type) reflect.Value {
	return reflect.MakeFunc(wanted, func(in []reflect.Value) []reflect.Value {
		used := make([]bool, len(in))
		var args []reflect.Value
		for i := range given.Type().NumIn() {
			param := given.Type().In(i)
			value := reflect.Zero(param)
			if param == loggerType {
				value = reflect.ValueOf(klog.Background())
			}
			for j, arg := range in {
				if !used[j] && arg.Type().AssignableTo(param) {
					used[j], value = true, arg
					break
				}
			}
			args = append(args, value)
		}
		out := given.Call(args)
		for i := range out {
			out[i] = out[i].Convert(wanted.Out(i))
		}
		return out
	})
}
