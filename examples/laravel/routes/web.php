<?php

use App\Http\ShowOrder;
use Illuminate\Support\Facades\Route;

Route::get('/', static fn () => '<h1>Shop</h1>');
Route::get('/orders/{number}', ShowOrder::class)->whereNumber('number');
