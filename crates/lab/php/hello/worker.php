<?php

// The resident worker.

require getenv('LAB_SDK') . '/src/autoload.php';
require __DIR__ . '/probe.php';

use Stoker\Http\Request;
use Stoker\Http\Response;

$answer = static fn (Request $request): Response => Response::text(Lab\answer($request->query()));
Stoker\Worker::create()->onRequest($answer)->run();
